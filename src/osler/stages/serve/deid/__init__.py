"""De-identify notes: rules united with a bundle's heads, then masks, tags or surrogates."""

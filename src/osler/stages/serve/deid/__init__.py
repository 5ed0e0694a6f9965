"""De-identify notes: combine rules with a bundle's heads, then insert masks, tags or surrogates."""

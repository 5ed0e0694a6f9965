// Invented notes. No person in them exists.

export const EXAMPLES = [
  {
    title: "Discharge summary (English)",
    language: "en",
    text: `Discharge summary
Patient: Okafor, Miriam (ID 40718823), 71 years F
Admitted: 03/12/2019   Discharged: 03/18/2019
Attending: Dr. Halloran, Lakeside General Hospital

History:
Mrs. Okafor was brought in by her son after two days of chest pain and shortness of breath. She has a history of hypertension and type 2 diabetes. She denies fever. Her mother had a stroke.

Hospital course:
Chest x-ray showed pneumonia of the left lower lobe. She was started on ceftriaxone 1 g IV daily for pneumonia. Warfarin was stopped because of a nosebleed; ibuprofen was avoided, since it can increase the effect of warfarin. The chest pain resolved.

Laboratory:
WBC 14.2, creatinine 1.1, hemoglobin 12.8.

Medications on discharge:
1. Metformin 500 mg PO twice daily
2. Lisinopril 10 mg PO daily
3. Amoxicillin 875 mg PO every 12 hours for 5 days

Follow-up with Dr. Petrov on 03/25/2019. Call (555) 010-4477 with any questions.
`,
  },
  {
    title: "Emergency note (English)",
    language: "en",
    text: `Emergency department note   Date: 07/02/2021
Patient: Lindqvist, Tomas (ID 55120934), 34 years M

Chief complaint: severe headache and vomiting.
He took ibuprofen 400 mg twice without relief. No neck stiffness, no weakness. CT of the head was negative for hemorrhage.
Ondansetron 4 mg IV was given for nausea, and sumatriptan 6 mg for migraine. He developed a rash after ketorolac.
Possible medication overuse headache. Discharged home to 12 Alder Street; review by Dr. Amari in two weeks.
`,
  },
  {
    title: "Informe de alta (español)",
    language: "es",
    text: `Informe de alta
Paciente: Ibarra Solano, Lucía. NHC 3391027. Edad: 66 años.
Ingreso: 14/02/2020. Alta: 20/02/2020. Hospital San Telmo, Servicio de Medicina Interna. Dra. Quintana.

Antecedentes: hipertensión arterial y diabetes mellitus tipo 2. No alergias conocidas.
Enfermedad actual: acude por disnea y dolor torácico de tres días de evolución. No refiere fiebre.
La radiografía de tórax mostró una neumonía basal derecha. Se inició ceftriaxona 2 g cada 24 horas por neumonía.
Al alta: metformina 850 mg cada 12 horas y enalapril 10 mg al día. Revisión el 05/03/2020. Teléfono 900 555 014.
`,
  },
  {
    title: "Compte rendu (français)",
    language: "fr",
    text: `Compte rendu d'hospitalisation
Patiente : Mme Delorme Agathe, 58 ans, née le 04/06/1961. Dossier 771204.
Hospitalisée du 12/01/2020 au 17/01/2020, Hôpital Saint-Ferréol, Dr Vasseur.

Motif : douleur thoracique et dyspnée depuis deux jours. Pas de fièvre. Antécédent d'hypertension artérielle.
La radiographie montre une pneumopathie basale gauche. Traitement par amoxicilline 1 g trois fois par jour pendant sept jours.
Sortie avec metformine 500 mg matin et soir. Contrôle avec le Dr Lemaire le 30/01/2020.
`,
  },
];

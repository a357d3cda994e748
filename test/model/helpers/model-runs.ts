/** Default number of scenarios per profile: 5,000 in total. */
export const modelRuns = 2_500;

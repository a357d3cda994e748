/** Default number of scenarios per profile: 5,000 in total. */
export const modelRuns = 2_500;

/** Number of scenarios with takeovers: each process opens a file, which takes longer. */
export const takeoverRuns = 600;

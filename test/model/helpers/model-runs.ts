/** Default number of scenarios of a profile. */
export const modelRuns = 2_500;

/** Number of scenarios with crashes: they take longer. `npm run model` runs more. */
export const crashRuns = 1_500;

/** Number of scenarios with takeovers: each process opens a file, which takes longer. */
export const takeoverRuns = 600;

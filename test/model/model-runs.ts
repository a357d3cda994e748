/** How many scenarios of each profile the check runs by default: 5,000 in all. */
export const modelRuns = 2_500;

/** The version of the orchestration that runs a flow, and so of every run of one. It tells runs of flows apart in lists. */
export const flowVersion = 'flow-1';

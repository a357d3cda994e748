// The interpreter of flows, which is the same for all runs.
const flowVersion = 'flow-1';

/** Whether an instance has a version that its author chose. */
export function isVersion(version: string | undefined): version is string {
  return version !== undefined && version !== flowVersion;
}

/** `v3` */
export function versionText(version: string): string {
  return version.startsWith('v') ? version : `v${version}`;
}

/** Whether an orchestration is a run of a flow. */
export function isFlowVersion(version: string | undefined): boolean {
  return version === flowVersion;
}

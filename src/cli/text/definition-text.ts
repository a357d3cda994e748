import type { InstanceInfo } from '../../client/reading/instance-info.ts';
import { flowVersion } from '../../model/definition.ts';

type Definition = Pick<InstanceInfo, 'kind' | 'name' | 'version'>;

/** Whether an instance is the run of a flow: an orchestration whose input holds the graph. */
export function isFlowRun({ kind, version }: Definition): boolean {
  return kind === 'orchestration' && version === flowVersion;
}

/** The name of a definition with its version. Flows have no versions of their own. */
export function definitionText(info: Definition): string {
  return info.version === undefined || isFlowRun(info)
    ? info.name
    : `${info.name} v${info.version}`;
}

/** The input that the caller passed: that of a flow run without its graph. */
export function inputOf(info: Definition & Pick<InstanceInfo, 'input'>): unknown {
  const { input } = info;
  if (!isFlowRun(info) || typeof input !== 'object' || input === null) return input;
  return (input as { readonly input?: unknown }).input;
}

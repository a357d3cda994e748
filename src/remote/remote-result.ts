import type { InstanceInfo } from '../client/reading/instance-info.ts';
import { takeResult } from '../client/waiting/instance-result.ts';
import { PerdureError } from '../model/failures/errors.ts';

/** What a finished instance returned; throws what it ended with when it did not return. */
export function resultOf(info: InstanceInfo): unknown {
  if (info.undecodable?.includes('output') === true) {
    throw new PerdureError(
      'UNDECODABLE',
      'A stored payload is not valid JSON. Was the store damaged, or written by something else?',
    );
  }
  if (info.status === 'completed') return info.output;
  return takeResult({
    instanceId: info.id,
    name: info.name,
    status: info.status,
    output: null,
    failure: info.failure === undefined ? null : JSON.stringify(info.failure),
    cancel: info.cancel ?? null,
    terminated: info.terminated ?? null,
  });
}

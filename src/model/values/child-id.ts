import { createHash } from 'node:crypto';
import { maxIdBytes } from './names.ts';

/**
 * Returns the default id of a child. It is unique per execution and operation, so that a child after a continue-as-new has
 * a new id. A long parent id is cut to 600 bytes and its hash.
 */
export function defaultChildId(parent: {
  readonly instanceId: string;
  readonly executionId: number;
  readonly operation: number;
}): string {
  const suffix = `/${parent.executionId}.${parent.operation}`;
  if (Buffer.byteLength(parent.instanceId) + suffix.length <= maxIdBytes) {
    return parent.instanceId + suffix;
  }
  const hash = createHash('sha256').update(parent.instanceId).digest('base64url');
  return `${cutToBytes(parent.instanceId, 600)}~${hash}${suffix}`;
}

/** Whether an id is a default id of a child of this instance. */
export function isDefaultChildId(instanceId: string, childId: string): boolean {
  const suffix = '1.1';
  const first = defaultChildId({ instanceId, executionId: 1, operation: 1 });
  const prefix = first.slice(0, -suffix.length);
  return childId.startsWith(prefix) && /^\d+\.\d+$/.test(childId.slice(prefix.length));
}

function cutToBytes(text: string, bytes: number): string {
  const cut = Buffer.from(text).subarray(0, bytes).toString();
  // A character that was cut decodes to the replacement character.
  return cut.endsWith('\ufffd') ? cut.slice(0, -1) : cut;
}

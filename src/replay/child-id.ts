import { createHash } from 'node:crypto';
import { maxIdBytes } from '../model/values/names.ts';

/**
 * The id of a child that the code gave none: unique per operation and per execution, so that a child after a
 * continue-as-new never meets one from before. A long parent id is shortened to its beginning and its hash.
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

function cutToBytes(text: string, bytes: number): string {
  const cut = Buffer.from(text).subarray(0, bytes).toString();
  // A character cut in half decodes to the replacement character.
  return cut.endsWith('\ufffd') ? cut.slice(0, -1) : cut;
}

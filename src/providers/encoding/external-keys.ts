import { hash } from 'node:crypto';

const segmentLength = 100;

/** Returns the folder of an instance's payloads. The id is readable in it, as it is in the database. */
function folderOf(instanceId: string): string {
  const encoded = Buffer.from(instanceId).toString('base64url');
  const segments = encoded.match(new RegExp(`.{1,${segmentLength}}`, 'g')) ?? ['-'];
  return `i/${segments.join('/')}`;
}

/** A key of the layout of `folderOf`. */
export interface ParsedKey {
  readonly instanceId: string;
  /** Whether it marks a fork that shares the payloads of this instance. The mark contains the id of the fork. */
  readonly isMark: boolean;
}

const payloadMark = 'p.';
const forkMark = 'f.';

/** Returns the key of a new payload. */
export function payloadKey(instanceId: string, name: string): string {
  return `${folderOf(instanceId)}/${payloadMark}${name}`;
}

/**
 * Returns the key that marks a fork: it shares the payloads of the instance that it was copied from. It has a hash of the
 * fork's id, because two ids exceed the maximum length of a key.
 */
export function forkKey(instanceId: string, forkId: string): string {
  return `${folderOf(instanceId)}/${forkMark}${hash('sha256', forkId, 'base64url')}`;
}

/** The beginning of the keys that mark forks of an instance. */
export function forkPrefix(instanceId: string): string {
  return `${folderOf(instanceId)}/${forkMark}`;
}

/** Reads a key. Returns `undefined` for a key of another program. */
export function parseKey(key: string): ParsedKey | undefined {
  const segments = key.split('/');
  const name = segments.pop() ?? '';
  if (segments.shift() !== 'i') return undefined;
  const instanceId = fromSegments(segments.join(''));
  const isMark = name.startsWith(forkMark);
  return isMark || name.startsWith(payloadMark) ? { instanceId, isMark } : undefined;
}

function fromSegments(encoded: string): string {
  return encoded === '-' ? '' : Buffer.from(encoded, 'base64url').toString();
}

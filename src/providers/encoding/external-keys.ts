import { hash } from 'node:crypto';

const segmentLength = 100;

/** Returns the folder of an instance's payloads. The id is readable in it, as it is in the database. */
function folderOf(instanceId: string): string {
  const encoded = Buffer.from(instanceId).toString('base64url');
  const segments = encoded.match(new RegExp(`.{1,${segmentLength}}`, 'g')) ?? ['-'];
  return `i/${segments.join('/')}`;
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

/** Whether a key is that of a payload. */
export function isPayloadKey(key: string): boolean {
  return key.slice(key.lastIndexOf('/') + 1).startsWith(payloadMark);
}

/** Returns the instance of a payload or a mark. `undefined` for a key of another program. */
export function ownerOf(key: string): string | undefined {
  const segments = key.split('/');
  const name = segments.pop() ?? '';
  if (segments.shift() !== 'i') return undefined;
  if (!name.startsWith(payloadMark) && !name.startsWith(forkMark)) return undefined;
  const encoded = segments.join('');
  return encoded === '-' ? '' : Buffer.from(encoded, 'base64url').toString();
}

import { randomToken } from '../../../model/values/random-id.ts';

const taskMark = 't';
const taskSecretLength = randomToken().length + taskMark.length;

/** Marks a secret as that of a task run, so that an ack need not look for what it settles. A hint, and no more. */
export function newTaskSecret(secret: string): string {
  return `${taskMark}${secret}`;
}

/** Says whether a secret is marked as that of a task run. */
export function isTaskSecret(secret: string): boolean {
  return secret.length === taskSecretLength && secret.startsWith(taskMark);
}

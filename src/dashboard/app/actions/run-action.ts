import { call } from '../api/call.ts';
import { instanceHref, navigate } from '../state/router.ts';
import type { ActionKind } from '../state/actions.ts';
import { parsePayload, type ActionInput } from './action-input.ts';

/** Whether an action changed anything, and what to tell. */
export interface ActionResult {
  readonly changed: boolean;
  readonly text?: string;
}

/** Runs an action on one instance. Throws `ApiError`. */
export async function runOn(
  action: ActionKind,
  id: string,
  input: ActionInput,
  signal?: AbortSignal,
): Promise<ActionResult> {
  const params = { id };
  const reason = input.reason.trim() === '' ? {} : { reason: input.reason.trim() };
  switch (action) {
    case 'cancel': {
      const limit = input.cleanupTimeout.trim();
      const result = await call(
        'cancelInstance',
        { params, body: { ...reason, ...(limit !== '' && { cleanupTimeout: limit }) } },
        signal,
      );
      return told(result);
    }
    case 'terminate':
      return told(
        await call('terminateInstance', { params, body: { ...reason, tree: input.tree } }, signal),
      );
    case 'pause':
      return told(
        await call('pauseInstance', { params, body: { ...reason, tree: input.tree } }, signal),
      );
    case 'resume':
      return told(
        await call('resumeInstance', { params, body: { ...reason, tree: input.tree } }, signal),
      );
    case 'retry': {
      const { value } = parsePayload(input.payload);
      const body = { from: input.from, ...(value !== undefined && { input: value }), ...reason };
      const { executionId } = await call('retryInstance', { params, body }, signal);
      return { changed: true, text: `Execution ${executionId} has started.` };
    }
    case 'fork': {
      const { value } = parsePayload(input.payload);
      const event = Number(input.fromEvent);
      const body = {
        from: input.fromEvent.trim() === '' ? input.from : event,
        ...(input.newId.trim() !== '' && { id: input.newId.trim() }),
        ...(value !== undefined && { input: value }),
        ...reason,
      };
      const forked = await call('forkInstance', { params, body }, signal);
      navigate(instanceHref(forked.id));
      return { changed: true, text: `Forked as ${forked.id}.` };
    }
    case 'raiseEvent': {
      const { value } = parsePayload(input.payload);
      const body = { name: input.eventName.trim(), ...(value !== undefined && { payload: value }) };
      await call('raiseEvent', { params, body }, signal);
      return { changed: true };
    }
    case 'runAgain': {
      const { value } = parsePayload(input.payload);
      const body = {
        name: input.definition.trim(),
        ...(input.newId.trim() !== '' && { id: input.newId.trim() }),
        ...(value !== undefined && { input: value }),
      };
      const started = await call('startInstance', { body }, signal);
      navigate(instanceHref(started.id));
      return { changed: true, text: `Started ${started.id}.` };
    }
    case 'delete':
      await call('deleteInstance', { params, body: {} }, signal);
      return { changed: true };
    case 'prune':
      await call(
        'pruneExecutions',
        { params, body: { keepLast: Math.max(0, Number(input.keepLast) || 0) } },
        signal,
      );
      return { changed: true };
    default:
      return action satisfies never;
  }
}

function told({
  found,
  changed,
  status,
}: {
  found: boolean;
  changed: boolean;
  status: string | null;
}): ActionResult {
  if (!found) return { changed: false, text: 'It no longer exists.' };
  return changed ? { changed } : { changed, text: `It stays as it is: ${status ?? 'unknown'}.` };
}

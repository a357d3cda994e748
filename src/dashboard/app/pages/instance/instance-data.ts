import { useEffect } from 'preact/hooks';
import type { ResponseBody } from '../../api/operations.ts';
import { call } from '../../api/call.ts';
import { follow } from '../../api/stream.ts';
import { isLive } from '../../state/live.ts';
import { useResource, type Resource } from '../../state/resource.ts';

type InstanceInfo = ResponseBody<'getInstance'>;
export type Why = ResponseBody<'explainInstance'>;
export type PendingWork = ResponseBody<'listRunning'>['items'][number];

/** An instance and why it is in its state. */
export interface InstanceState {
  readonly instance: InstanceInfo;
  readonly why: Why;
}

/** Reads an instance, and reads it again when it changes. */
export function useInstance(id: string): Resource<InstanceState> {
  const resource = useResource(
    `instance ${id}`,
    async (signal) => {
      const [instance, why] = await Promise.all([
        call('getInstance', { params: { id } }, signal),
        call('explainInstance', { params: { id } }, signal),
      ]);
      return { instance, why };
    },
    // Attempts and heartbeats change without a change of the instance.
    { everyMs: 5_000 },
  );
  useEffect(() => {
    let watch: AbortController | undefined;
    const dispose = isLive.subscribe((live) => {
      watch?.abort();
      if (!live) return;
      watch = new AbortController();
      let isFirst = true;
      void follow(
        'watchInstances',
        () => ({ body: { ids: [id] } }),
        {
          message: () => {
            // The first message is the state that was just read.
            if (!isFirst) resource.reload();
            isFirst = false;
          },
          reopened: () => resource.reload(),
        },
        watch.signal,
      );
    });
    return () => {
      dispose();
      watch?.abort();
    };
  }, [resource]);
  return resource;
}

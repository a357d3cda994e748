/** A remote client is as good as a local one to whoever takes a client; `tsc` is the test, nothing here runs. */
import type { Client, Perdure } from 'perdure';
import type { RemoteClient } from 'perdure/remote';
import { exactly } from './exactly.ts';

type LocalClient = Perdure['client'];

declare const local: LocalClient;
declare const remote: RemoteClient;

// Both can be passed where a client is wanted.
function takesClient(_client: Client): void {}
takesClient(local);
takesClient(remote);

// Neither has anything that the other has not.
declare const names: keyof LocalClient;
exactly<keyof RemoteClient>()(names);

// What they are asked and what they answer is the same, method by method.
type Method = Exclude<keyof LocalClient, 'schedules' | 'retention' | 'withTransaction' | 'runFlow'>;
declare const remoteMethods: Pick<RemoteClient, Method>;
exactly<Pick<LocalClient, Method>>()(remoteMethods);
exactly<Pick<LocalClient['schedules'], keyof LocalClient['schedules']>>()(
  remote.schedules as Pick<RemoteClient['schedules'], keyof RemoteClient['schedules']>,
);
exactly<Pick<LocalClient['retention'], keyof LocalClient['retention']>>()(
  remote.retention as Pick<RemoteClient['retention'], keyof RemoteClient['retention']>,
);

// Of what cannot be remote nothing comes back.
exactly<never>()(remote.withTransaction());

/** A remote client can replace a local one. `tsc` is the test; nothing here runs. */
import type { Client, Perdure } from 'perdure';
import type { RemoteClient } from 'perdure/remote';
import { exactly } from './exactly.ts';

type LocalClient = Perdure['client'];

declare const local: LocalClient;
declare const remote: RemoteClient;

// Both are assignable to a parameter of type `Client`.
function takesClient(_client: Client): void {}
takesClient(local);
takesClient(remote);

// Neither has a member that the other lacks.
declare const names: keyof LocalClient;
exactly<keyof RemoteClient>()(names);

// Parameters and results are the same, method by method.
type Method = Exclude<keyof LocalClient, 'schedules' | 'retention' | 'withTransaction' | 'runFlow'>;
declare const remoteMethods: Pick<RemoteClient, Method>;
exactly<Pick<LocalClient, Method>>()(remoteMethods);
exactly<Pick<LocalClient['schedules'], keyof LocalClient['schedules']>>()(
  remote.schedules as Pick<RemoteClient['schedules'], keyof RemoteClient['schedules']>,
);
exactly<Pick<LocalClient['retention'], keyof LocalClient['retention']>>()(
  remote.retention as Pick<RemoteClient['retention'], keyof RemoteClient['retention']>,
);

// Members that cannot be remote return `never`.
exactly<never>()(remote.withTransaction());

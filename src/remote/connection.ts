import { Client } from '../client/client.ts';
import { PerdureError } from '../model/failures/errors.ts';
import { readConnect, type CheckedConnect, type ConnectOptions } from './connect-options.ts';
import { HttpBackend } from './http-backend.ts';

/** A client of a store that is open in a server. It has the members and errors of a local client. */
export class RemoteClient extends Client {
  constructor(options: CheckedConnect & { readonly guard?: (() => void) | undefined }) {
    super({ ...options, backend: new HttpBackend(options) });
  }

  /** Always throws: the transaction is on a connection that the server does not have. */
  withTransaction(): never {
    this.assertOpen();
    throw new PerdureError(
      'INVALID_INPUT',
      'A remote client cannot join a transaction. Open the PostgreSQL store with Perdure.open().',
    );
  }
}

/** A connection to a server, with a client to start and watch instances. Workers run where the store is. */
export class Connection implements AsyncDisposable {
  readonly client: RemoteClient;

  constructor(client: RemoteClient) {
    this.client = client;
  }

  /** Closes the sessions of the client and rejects its waits. Idempotent, never rejects. */
  close(): Promise<void> {
    return this.client.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

/** Connects to a server. Rejects if it does not respond in time or does not accept the token. */
export async function connect(
  url: string | URL,
  options?: ConnectOptions,
  guard?: () => void,
): Promise<Connection> {
  const client = new RemoteClient({ ...readConnect(url, options), guard });
  try {
    // Every role may list schedules, and one entry costs little.
    await client.schedules.list({ limit: 1 });
  } catch (error) {
    await client.close();
    throw error;
  }
  return new Connection(client);
}

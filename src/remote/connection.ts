import { readConnect, type ConnectOptions } from './connect-options.ts';
import { RemoteClient } from './remote-client.ts';

/** A store that a server has open, with a client to start and watch instances. Workers run where the store is. */
export class Connection implements AsyncDisposable {
  readonly client: RemoteClient;

  constructor(client: RemoteClient) {
    this.client = client;
  }

  /** Says goodbye to the sessions of the client and ends all waits. Idempotent, never rejects. */
  close(): Promise<void> {
    return this.client.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

/** Connects to a server of Perdure; rejects when it does not answer in time, or does not know the token. */
export async function connect(
  url: string | URL,
  options?: ConnectOptions,
  guard?: () => void,
): Promise<Connection> {
  const client = new RemoteClient({ ...readConnect(url, options), guard });
  try {
    // Whoever may do anything here may do this, and it costs next to nothing.
    await client.schedules.list({ limit: 1 });
  } catch (error) {
    await client.close();
    throw error;
  }
  return new Connection(client);
}

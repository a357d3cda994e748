import { afterEach, describe } from 'vitest';
import { Perdure, type StartWorkerOptions } from '../../src/perdure.ts';
import type { Provider } from '../../src/providers/contract/provider.ts';
import type { ConnectOptions } from '../../src/remote/connect-options.ts';
import type { RemoteClient } from '../../src/remote/connection.ts';
import { createToken } from '../../src/server/access/tokens.ts';
import { serve, type PerdureServer, type ServeOptions } from '../../src/server/serve.ts';
import { engineStores, type StoreKind } from '../engine/engine-store.ts';
import { startTcpProxy, type TcpProxy } from '../postgres/helpers/tcp-proxy.ts';

/** A client that reaches a server through a proxy. Everything is closed and removed after the test. */
interface Remote {
  /** The local engine behind the server. */
  readonly perdure: Perdure;
  readonly server: PerdureServer;
  readonly token: string;
  /** Between the client and the server. */
  readonly proxy: TcpProxy;
  readonly client: RemoteClient;
  /** Connects another client. */
  readonly connect: (options?: ConnectOptions) => Promise<RemoteClient>;
}

/** Opens a remote setup and, if worker options are given, starts a worker. */
export type OpenRemote = (
  worker?: StartWorkerOptions,
  options?: {
    readonly serve?: ServeOptions;
    readonly connect?: ConnectOptions;
    /** Replaces methods of the store behind the server. */
    readonly wrap?: (provider: Provider) => Provider;
  },
) => Promise<Remote>;

/** Registers a suite once per store, over real sockets. */
export function describeRemote(
  title: string,
  suite: (open: OpenRemote) => void,
  kinds: readonly StoreKind[] = ['SQLite', 'PostgreSQL'],
): void {
  for (const kind of kinds) {
    describe(`${title} (${kind})`, () => {
      const newStore = engineStores(kind);
      const cleanups: (() => Promise<unknown>)[] = [];
      afterEach(async () => {
        for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
      });
      suite(async (worker, options = {}) => {
        const store = await newStore();
        cleanups.push(() => store.remove());
        const { wrap = (provider) => provider } = options;
        const perdure = await Perdure.open(wrap(await store.open()));
        cleanups.push(() => perdure.close());
        if (worker !== undefined) await perdure.startWorker({ shutdownGrace: 200, ...worker });
        const { token, sha256 } = createToken();
        const tokens = [{ name: 'tester', role: 'admin', sha256 } as const];
        const server = await serve(perdure, { port: 0, tokens, ...options.serve });
        cleanups.push(() => server.close());
        const proxy = await startTcpProxy(server.url);
        cleanups.push(() => proxy.close());
        const connect = async (more?: ConnectOptions): Promise<RemoteClient> => {
          const all = { token, ...options.connect, ...more };
          const connection = await Perdure.connect(proxy.url, all);
          cleanups.push(() => connection.close());
          return connection.client;
        };
        return { perdure, server, token, proxy, client: await connect(), connect };
      });
    });
  }
}

import { connect, createServer, type Socket } from 'node:net';

/** What the proxy does with bytes from a client. */
type ProxyAction =
  | 'pass'
  /** Closes the connection without forwarding them. */
  | 'cut'
  /** Forwards them, then closes the connection without the answer. */
  | 'cutAnswer';

/** A loopback proxy between clients and a server that can simulate network failures. */
export interface TcpProxy {
  /** The URL of the server through the proxy. */
  readonly url: string;
  readonly connections: number;
  /** Connections that wait for an answer. */
  readonly waiting: number;
  /** Closes all connections. Returns the number that waited for an answer. */
  cut(): number;
  /** Closes all connections and refuses new ones until `open`. */
  shut(): void;
  open(): void;
  /**
   * Forwards nothing until `resume`: clients can connect and send, but get no answer. Existing connections, and those made
   * before `resume`, stay dead. The server keeps its side of them open.
   */
  stall(): void;
  resume(): void;
  /** Resolves when the next client is refused. */
  refusal(): Promise<void>;
  /** Delays bytes in each direction by `ms`. */
  slow(ms: number): void;
  /** Decides what happens to the bytes that clients send. */
  intercept(action: (bytes: Buffer) => ProxyAction): void;
  /** Rewrites each chunk that the server sends. */
  alterAnswers(alter: (bytes: Buffer) => Buffer): void;
  close(): Promise<void>;
}

/** Starts a proxy in front of the server that a URL names. */
export async function startTcpProxy(url: string): Promise<TcpProxy> {
  const target = new URL(url);
  const sockets = new Set<Socket>();
  const unanswered = new Set<Socket>();
  const awaitRefusal: (() => void)[] = [];
  const silenced = new Set<Socket>();
  let isOpen = true;
  let isSilent = false;
  let latencyMs = 0;
  // Timers of equal delay fire in order.
  const later = (send: () => void): void => {
    if (latencyMs === 0) send();
    else setTimeout(send, latencyMs);
  };
  let actionFor: (bytes: Buffer) => ProxyAction = () => 'pass';
  let alterAnswer = (bytes: Buffer): Buffer => bytes;

  const server = createServer((client) => {
    if (!isOpen) {
      client.destroy();
      for (const resolve of awaitRefusal.splice(0)) resolve();
      return;
    }
    if (isSilent) {
      silenced.add(client);
      sockets.add(client);
      client.on('error', () => client.destroy());
      client.on('close', () => sockets.delete(client));
      client.resume();
      return;
    }
    const upstream = connect(Number(target.port), target.hostname);
    const end = (): void => {
      client.destroy();
      upstream.destroy();
    };
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.setNoDelay(true);
      socket.on('error', end);
      socket.on('close', () => {
        sockets.delete(socket);
        unanswered.delete(client);
        if (socket !== client || !silenced.has(client)) end();
      });
    }
    upstream.on('data', (bytes) => {
      if (silenced.has(client)) return;
      unanswered.delete(client);
      later(() => void client.write(alterAnswer(bytes)));
    });
    client.on('data', (bytes) => {
      if (silenced.has(client)) return;
      unanswered.add(client);
      const action = actionFor(bytes);
      if (action === 'cut') return end();
      if (action === 'cutAnswer') {
        upstream.removeAllListeners('data');
        // An answer shows that the server has processed them.
        upstream.once('data', end);
      }
      later(() => void upstream.write(bytes));
    });
  });

  const cut = (): number => {
    const waiting = unanswered.size;
    for (const socket of sockets) socket.destroy();
    return waiting;
  };
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  if (typeof address !== 'object' || address === null) throw new Error('No free port.');
  return {
    url: Object.assign(new URL(url), { hostname: '127.0.0.1', port: String(address.port) }).href,
    get connections() {
      return sockets.size / 2;
    },
    get waiting() {
      return unanswered.size;
    },
    cut,
    shut() {
      isOpen = false;
      cut();
    },
    open() {
      isOpen = true;
    },
    stall() {
      isSilent = true;
      for (const socket of sockets) silenced.add(socket);
    },
    resume() {
      isSilent = false;
    },
    refusal: () => new Promise((resolve) => awaitRefusal.push(resolve)),
    slow(ms) {
      latencyMs = ms;
    },
    intercept(action) {
      actionFor = action;
    },
    alterAnswers(alter) {
      alterAnswer = alter;
    },
    close() {
      cut();
      return new Promise((resolve) => void server.close(() => resolve()));
    },
  };
}

import type { Server } from 'node:http';
import { isIPv6, type Socket } from 'node:net';

export interface ConnectionLimits {
  readonly connections: number;
  readonly connectionsPerAddress: number;
  readonly anonymousIdleMs: number;
}

interface ConnectionState {
  readonly network: string;
  /** Requests without a complete response. */
  activeRequests: number;
  /** Whether a request on the connection was authenticated. */
  isAuthenticated: boolean;
  idleTimer: NodeJS.Timeout | undefined;
}

/**
 * Bounds the connections of a server, in total and per address. At a limit, a new connection replaces an idle one:
 * unauthenticated connections first, then the one idle for longest. If none is idle, the new connection is closed.
 * Closing waits only for connections with active requests.
 */
export class Connections {
  readonly #limits: ConnectionLimits;
  /** Idle connections are ordered by idle time, the longest first. */
  readonly #open = new Map<Socket, ConnectionState>();
  readonly #countByNetwork = new Map<string, number>();
  #isClosing = false;

  /** Tracks the connections that the server accepts from now on. */
  constructor(server: Server, limits: ConnectionLimits) {
    this.#limits = limits;
    server.on('connection', (socket: Socket) => this.#add(socket));
  }

  requestStarted(socket: Socket): void {
    const open = this.#open.get(socket);
    if (open === undefined) return;
    open.activeRequests += 1;
    clearTimeout(open.idleTimer);
  }

  /** Call when a request on the connection was authenticated. */
  authenticate(socket: Socket): void {
    const open = this.#open.get(socket);
    if (open !== undefined) open.isAuthenticated = true;
  }

  isAuthenticated(socket: Socket): boolean {
    return this.#open.get(socket)?.isAuthenticated === true;
  }

  /** Whether a connection has several requests without a complete response. */
  isPipelined(socket: Socket): boolean {
    return (this.#open.get(socket)?.activeRequests ?? 0) > 1;
  }

  /** Call when the response to a request was sent or given up. */
  requestEnded(socket: Socket): void {
    const open = this.#open.get(socket);
    if (open === undefined) return;
    open.activeRequests -= 1;
    if (open.activeRequests > 0) return;
    // A kept-alive connection would delay the close.
    if (this.#isClosing) return socket.destroySoon();
    this.#open.delete(socket);
    this.#open.set(socket, open);
    this.#watchIdle(socket, open);
  }

  /** Closes idle connections now, and the others after their last response. */
  close(): void {
    this.#isClosing = true;
    for (const [socket, { activeRequests }] of this.#open)
      if (activeRequests === 0) socket.destroy();
  }

  #add(socket: Socket): void {
    const network = networkOf(socket.remoteAddress ?? '');
    if (!this.#makeRoom(network)) {
      socket.destroy();
      return;
    }
    const open: ConnectionState = {
      network,
      activeRequests: 0,
      isAuthenticated: false,
      idleTimer: undefined,
    };
    this.#open.set(socket, open);
    this.#countByNetwork.set(network, this.#countOf(network) + 1);
    socket.once('close', () => this.#remove(socket));
    this.#watchIdle(socket, open);
  }

  #remove(socket: Socket): void {
    const open = this.#open.get(socket);
    if (open === undefined) return;
    clearTimeout(open.idleTimer);
    this.#open.delete(socket);
    const left = this.#countOf(open.network) - 1;
    if (left > 0) this.#countByNetwork.set(open.network, left);
    else this.#countByNetwork.delete(open.network);
  }

  #countOf(network: string): number {
    return this.#countByNetwork.get(network) ?? 0;
  }

  /** Whether one more connection is allowed. Closes an idle one if necessary. */
  #makeRoom(network: string): boolean {
    const { connections, connectionsPerAddress } = this.#limits;
    if (this.#countOf(network) >= connectionsPerAddress) return this.#dropIdle(network);
    return this.#open.size < connections || this.#dropIdle();
  }

  #dropIdle(network?: string): boolean {
    let known: Socket | undefined;
    for (const [socket, open] of this.#open) {
      if (open.activeRequests > 0 || (network !== undefined && open.network !== network)) continue;
      if (!open.isAuthenticated) return this.#drop(socket);
      known ??= socket;
    }
    return known !== undefined && this.#drop(known);
  }

  #drop(socket: Socket): boolean {
    // Removed immediately, because the close event comes later.
    this.#remove(socket);
    socket.destroy();
    return true;
  }

  #watchIdle(socket: Socket, open: ConnectionState): void {
    if (open.isAuthenticated) return;
    const { bytesRead } = socket;
    open.idleTimer = setTimeout(() => {
      // A request that has started to arrive has its own timeout (`headersMs`).
      if (socket.bytesRead === bytesRead) socket.destroy();
    }, this.#limits.anonymousIdleMs);
  }
}

/** Returns the key for limits by address: the IPv4 address, or the /64 network of an IPv6 address. */
export function networkOf(address: string): string {
  const v4 = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1];
  if (v4 !== undefined || !isIPv6(address)) return v4 ?? address;
  const [head = '', tail = ''] = (address.split('%')[0] ?? '').split('::');
  const groups = (text: string): readonly string[] => (text === '' ? [] : text.split(':'));
  const missing = address.includes('::') ? 8 - groups(head).length - groups(tail).length : 0;
  const all = [...groups(head), ...Array<string>(Math.max(0, missing)).fill('0'), ...groups(tail)];
  return all.slice(0, 4).join(':');
}

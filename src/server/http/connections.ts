import type { Server } from 'node:http';
import { isIPv6, type Socket } from 'node:net';

/** How many connections a server may have, and how long one may be idle that no request has authenticated. */
export interface ConnectionLimits {
  readonly connections: number;
  readonly connectionsPerAddress: number;
  readonly anonymousIdleMs: number;
}

/** What is known of a connection. */
interface ConnectionState {
  readonly network: string;
  /** Requests that are being answered. */
  inUse: number;
  /** Whether a request on it was authenticated. */
  isKnown: boolean;
  idleTimer: NodeJS.Timeout | undefined;
}

/**
 * The connections of a server. It bounds them: when all are taken, or all that one address may have, a new connection
 * replaces an idle one: first one that no request has authenticated, and of those the one idle for longest. Where none is
 * idle the new one is closed. Closing the server waits for the connections that are in use, and for no others.
 */
export class Connections {
  readonly #limits: ConnectionLimits;
  /** The one that has been idle for longest comes first among those that are idle. */
  readonly #open = new Map<Socket, ConnectionState>();
  readonly #countByNetwork = new Map<string, number>();
  #isClosing = false;

  /** Looks after the connections of a server from now on. */
  constructor(server: Server, limits: ConnectionLimits) {
    this.#limits = limits;
    server.on('connection', (socket: Socket) => this.#add(socket));
  }

  /** A request came. */
  requestStarted(socket: Socket): void {
    const open = this.#open.get(socket);
    if (open === undefined) return;
    open.inUse += 1;
    clearTimeout(open.idleTimer);
  }

  /** A request on the connection was authenticated. */
  authenticate(socket: Socket): void {
    const open = this.#open.get(socket);
    if (open !== undefined) open.isKnown = true;
  }

  /** Whether a request on the connection was authenticated. */
  isAuthenticated(socket: Socket): boolean {
    return this.#open.get(socket)?.isKnown === true;
  }

  /** Whether a connection has several requests that are not answered yet. */
  isPipelined(socket: Socket): boolean {
    return (this.#open.get(socket)?.inUse ?? 0) > 1;
  }

  /** A request was answered. */
  requestEnded(socket: Socket): void {
    const open = this.#open.get(socket);
    if (open === undefined) return;
    open.inUse -= 1;
    if (open.inUse > 0) return;
    // It could be used again, and would keep the server waiting.
    if (this.#isClosing) return socket.destroySoon();
    this.#open.delete(socket);
    this.#open.set(socket, open);
    this.#watchIdle(socket, open);
  }

  /** Closes what is not in use now, and the rest as soon as it is answered. */
  close(): void {
    this.#isClosing = true;
    for (const [socket, { inUse }] of this.#open) if (inUse === 0) socket.destroy();
  }

  #add(socket: Socket): void {
    const network = networkOf(socket.remoteAddress ?? '');
    if (!this.#makeRoom(network)) {
      socket.destroy();
      return;
    }
    const open: ConnectionState = { network, inUse: 0, isKnown: false, idleTimer: undefined };
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

  /** Whether one more connection may be opened; closes an idle one where that is needed. */
  #makeRoom(network: string): boolean {
    const { connections, connectionsPerAddress } = this.#limits;
    if (this.#countOf(network) >= connectionsPerAddress) return this.#dropIdle(network);
    return this.#open.size < connections || this.#dropIdle();
  }

  #dropIdle(network?: string): boolean {
    let known: Socket | undefined;
    for (const [socket, open] of this.#open) {
      if (open.inUse > 0 || (network !== undefined && open.network !== network)) continue;
      if (!open.isKnown) return this.#drop(socket);
      known ??= socket;
    }
    return known !== undefined && this.#drop(known);
  }

  #drop(socket: Socket): boolean {
    // Counted out at once: its close event comes later.
    this.#remove(socket);
    socket.destroy();
    return true;
  }

  #watchIdle(socket: Socket, open: ConnectionState): void {
    if (open.isKnown) return;
    const { bytesRead } = socket;
    open.idleTimer = setTimeout(() => {
      // A request that has begun to arrive has the time that headers may take.
      if (socket.bytesRead === bytesRead) socket.destroy();
    }, this.#limits.anonymousIdleMs);
  }
}

/** What connections are counted by: an IPv4 address, or the /64 network of an IPv6 one, which one host may have. */
export function networkOf(address: string): string {
  const v4 = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1];
  if (v4 !== undefined || !isIPv6(address)) return v4 ?? address;
  const [head = '', tail = ''] = (address.split('%')[0] ?? '').split('::');
  const groups = (text: string): readonly string[] => (text === '' ? [] : text.split(':'));
  const missing = address.includes('::') ? 8 - groups(head).length - groups(tail).length : 0;
  const all = [...groups(head), ...Array<string>(Math.max(0, missing)).fill('0'), ...groups(tail)];
  return all.slice(0, 4).join(':');
}

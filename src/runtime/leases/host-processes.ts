import { readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';

/** A process of this host. The start time distinguishes it from a later one with the same pid. */
export interface HostProcess {
  readonly pid: number;
  readonly startTime: string;
}

/** The processes of this host. */
export interface HostProcesses {
  /** Identifies host, boot and namespaces. A process with another id cannot be checked. */
  readonly hostId: string;
  readonly self: HostProcess;
  /** Whether a process with this `hostId` has certainly ended. */
  hasDied(process: HostProcess): boolean;
}

/**
 * Reads `/proc`. Returns `undefined` if it is missing or shows another pid namespace (macOS, Windows).
 * Then only leases decide.
 */
export function hostProcesses(): HostProcesses | undefined {
  try {
    // A `/proc` of another pid namespace lists other processes.
    if (readlinkSync('/proc/self') !== String(process.pid)) return undefined;
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
    // Start times are relative to the boot time of the time namespace.
    const namespaces = ['pid', 'time'].map((kind) => readlinkSync(`/proc/self/ns/${kind}`));
    const startTime = readStat(process.pid)?.startTime;
    if (boot === '' || startTime === undefined) return undefined;
    const self = { pid: process.pid, startTime };
    return { hostId: [boot, ...namespaces, hostname()].join(' '), self, hasDied };
  } catch {
    return undefined;
  }
}

function hasDied({ pid, startTime }: HostProcess): boolean {
  // `/proc` may hide processes of other users, but a signal reaches them.
  if (!exists(pid)) return true;
  const stat = readStat(pid);
  if (stat === undefined) return false;
  // A zombie has ended and waits to be reaped.
  return stat.startTime !== startTime || /[ZX]/.test(stat.state);
}

function exists(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH';
  }
}

/** Returns state and start time (clock ticks since boot), or `undefined` if unreadable. */
function readStat(pid: number): { readonly state: string; readonly startTime: string } | undefined {
  let stat: string;
  try {
    stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  } catch {
    return undefined;
  }
  // The second field is the program name in parentheses. It may contain any character.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const [state, startTime] = [fields[0], fields[19]];
  return state === undefined || startTime === undefined ? undefined : { state, startTime };
}

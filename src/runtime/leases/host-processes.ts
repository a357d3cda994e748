import { readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';

/** A process as its host tells it from all others, also from a later one with its pid. */
export interface HostProcess {
  readonly pid: number;
  readonly startTime: string;
}

/** How a process knows itself and finds out whether others on its host live. */
export interface HostProcesses {
  /** Names the host, the boot and the pid namespace: a process of another one cannot be judged. */
  readonly hostId: string;
  readonly self: HostProcess;
  /** Whether a process with this `hostId` has ended for certain. */
  hasDied(process: HostProcess): boolean;
}

/**
 * The processes of this host, by `/proc`. `undefined` where that is missing or shows another pid namespace: macOS,
 * Windows. There the lease alone decides.
 */
export function hostProcesses(): HostProcesses | undefined {
  try {
    // A `/proc` of another namespace would tell of other processes.
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
  // `/proc` may hide the processes of other users; a signal tells of them all the same.
  if (!exists(pid)) return true;
  const stat = readStat(pid);
  if (stat === undefined) return false;
  // A zombie only waits for its parent to take notice.
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

/** The state of a process, and the clock ticks from the boot to its start; `undefined` if they cannot be read. */
function readStat(pid: number): { readonly state: string; readonly startTime: string } | undefined {
  let stat: string;
  try {
    stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  } catch {
    return undefined;
  }
  // The name of the program comes second, in brackets, and may hold anything.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const [state, startTime] = [fields[0], fields[19]];
  return state === undefined || startTime === undefined ? undefined : { state, startTime };
}

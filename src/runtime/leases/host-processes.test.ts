import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { hostProcesses } from './host-processes.ts';

const host = hostProcesses();

it('hostProcesses() returns undefined without /proc', () => {
  expect(host === undefined).toBe(!existsSync('/proc/self/stat'));
});

describe.skipIf(host === undefined)('hostProcesses', () => {
  it('hasDied() is false for this process', () => {
    expect(host?.self.pid).toBe(process.pid);
    expect(host?.hasDied(host.self)).toBe(false);
  });

  it('hostId contains boot id, pid and time namespace, and host name', () => {
    expect(host?.hostId).toMatch(/^[0-9a-f-]{36} pid:\[\d+\] time:\[\d+\] \S+$/);
    expect(hostProcesses()?.hostId).toBe(host?.hostId);
  });

  it('hasDied() is true for a pid that a later process has', () => {
    const startTime = String(Number(host?.self.startTime) - 1);
    expect(host?.hasDied({ pid: process.pid, startTime })).toBe(true);
  });

  it('hasDied() is true for a killed process, also before its parent reaps it', async () => {
    // The shell replaces itself, so no parent reaps its child before it ends.
    const parent = spawn('sh', ['-c', 'sleep 60 & echo $!; exec sleep 60'], {
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    const [line] = (await once(parent.stdout, 'data')) as [Buffer];
    const pid = Number(String(line).trim());
    const zombie = { pid, startTime: startTimeOf(pid) };
    expect(host?.hasDied(zombie)).toBe(false);
    process.kill(pid, 'SIGKILL');
    while (host?.hasDied(zombie) === false) await new Promise((resolve) => setImmediate(resolve));
    expect(host?.hasDied(zombie)).toBe(true);
    const self = { pid: parent.pid ?? 0, startTime: startTimeOf(parent.pid ?? 0) };
    expect(host?.hasDied(self)).toBe(false);
    const exited = once(parent, 'exit');
    parent.kill('SIGKILL');
    await exited;
    expect(host?.hasDied(self)).toBe(true);
  });
});

function startTimeOf(pid: number): string {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? '';
}

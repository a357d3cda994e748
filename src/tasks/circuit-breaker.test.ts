import { describe, expect, it } from 'vitest';
import { CircuitBreaker, resolveBreaker } from './circuit-breaker.ts';

describe('CircuitBreaker', () => {
  const options = resolveBreaker({ failures: 3, openFor: 1_000 });

  function failing(breaker: CircuitBreaker, times: number, nowMs: number): void {
    for (let time = 0; time < times; time += 1) breaker.start()('failed', nowMs);
  }

  it('opens after the configured number of consecutive failures', () => {
    const breaker = new CircuitBreaker(options);
    failing(breaker, 2, 0);
    breaker.start()('succeeded', 0);
    failing(breaker, 2, 0);
    expect(breaker.capacity(0)).toBe(Infinity);
    failing(breaker, 1, 0);
    expect(breaker.capacity(999)).toBe(0);
    expect(breaker.probeAt).toBe(1_000);
  });

  it('allows one probe after openFor, and closes when it succeeds', () => {
    const breaker = new CircuitBreaker(options);
    failing(breaker, 3, 0);
    expect(breaker.capacity(1_000)).toBe(1);
    const leave = breaker.start();
    expect(breaker.capacity(5_000)).toBe(0);
    leave('succeeded', 1_001);
    expect(breaker.capacity(1_001)).toBe(Infinity);
    failing(breaker, 2, 1_002);
    expect(breaker.capacity(1_002)).toBe(Infinity);
  });

  it('reopens when the probe fails', () => {
    const breaker = new CircuitBreaker(options);
    failing(breaker, 3, 0);
    breaker.start()('failed', 1_500);
    expect(breaker.capacity(2_000)).toBe(0);
    expect(breaker.probeAt).toBe(2_500);
    expect(breaker.capacity(2_500)).toBe(1);
  });

  it('allows another probe when the probe was canceled or lost', () => {
    const breaker = new CircuitBreaker(options);
    failing(breaker, 3, 0);
    breaker.start()('neither', 1_100);
    expect(breaker.capacity(1_100)).toBe(1);
    breaker.start()('succeeded', 1_200);
    expect(breaker.capacity(1_200)).toBe(Infinity);
  });

  it('ignores attempts that started before it opened', () => {
    const breaker = new CircuitBreaker(options);
    const [slowSuccess, slowFailure] = [breaker.start(), breaker.start()];
    failing(breaker, 3, 0);
    slowSuccess('succeeded', 10);
    slowFailure('failed', 20);
    expect(breaker.capacity(20)).toBe(0);
    expect(breaker.probeAt).toBe(1_000);
  });

  it('ignores attempts that were canceled or lost', () => {
    const breaker = new CircuitBreaker(options);
    failing(breaker, 2, 0);
    breaker.start()('neither', 0);
    failing(breaker, 1, 0);
    expect(breaker.capacity(0)).toBe(0);
  });
});

import { describe, expect, it } from 'vitest';
import { planOverlap } from './overlap.ts';

describe('planOverlap', () => {
  it("'allow' starts buffered and due ticks", () => {
    const plan = planOverlap({ overlap: 'allow', bufferLimit: 1 }, [1], [2, 3]);
    expect(plan).toEqual({ starts: [1, 2, 3], bufferedTicks: [], skipped: 0 });
  });

  it("'skip' starts the first due tick, and none while a run is live", () => {
    expect(planOverlap({ overlap: 'skip', bufferLimit: 1 }, [], [2, 3])).toEqual({
      starts: [2],
      bufferedTicks: [],
      skipped: 1,
      whileRunning: { bufferedTicks: [], skipped: 2 },
    });
  });

  it("'buffer' keeps the earliest ticks up to its limit", () => {
    expect(planOverlap({ overlap: 'buffer', bufferLimit: 2 }, [1], [2, 3, 4])).toEqual({
      starts: [1],
      bufferedTicks: [2, 3],
      skipped: 1,
      whileRunning: { bufferedTicks: [1, 2], skipped: 2 },
    });
  });

  it("'cancelRunning' keeps the newest tick, and cancels only at a due tick", () => {
    const policy = { overlap: 'cancelRunning', bufferLimit: 1 } as const;
    expect(planOverlap(policy, [1], [2])).toMatchObject({
      starts: [2],
      skipped: 1,
      whileRunning: { bufferedTicks: [2], skipped: 1, cancel: {} },
    });
    expect(planOverlap(policy, [1], []).whileRunning).toEqual({ bufferedTicks: [1], skipped: 0 });
  });
});

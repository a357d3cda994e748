import type { CancellationType } from '../../../src/model/cancel.ts';
import type { Call, Script, Step } from '../../model/helpers/script.ts';

type Draw = () => number;

const pick = <T>(draw: Draw, from: readonly [T, ...T[]]): T =>
  from[Math.floor(draw() * from.length)] ?? from[0];

function randomCall(
  draw: Draw,
  cancellations: readonly [CancellationType, ...CancellationType[]],
): Call {
  return {
    cancellation: pick(draw, cancellations),
    attempts: pick(draw, [1, 2]),
    deaf: draw() < 0.15,
  };
}

const anyCall = (draw: Draw): Call => randomCall(draw, ['request', 'request', 'wait', 'abandon']);

function randomStep(draw: Draw, depth: number): Step {
  const ms = pick(draw, [50, 100, 400]);
  const kind = draw() * (depth > 1 ? 17 : 20);
  if (kind < 5) return { do: 'call', call: anyCall(draw) };
  if (kind < 8) return { do: 'both', first: anyCall(draw), second: anyCall(draw) };
  if (kind < 10) return { do: 'race', call: anyCall(draw), ms };
  // A scope waits for its code, so a call with mode `wait` could outlast the deadline.
  if (kind < 12) return { do: 'scope', call: randomCall(draw, ['request', 'abandon']), ms };
  if (kind < 13) return { do: 'sleep', ms };
  if (kind < 15) return { do: 'wait' };
  if (kind < 17) return { do: 'again' };
  const cancellation = pick(draw, ['request', 'wait', 'abandon'] as const);
  return { do: 'child', cancellation, script: randomScript(draw, depth + 1) };
}

/** A random orchestration for the reference model. */
export function randomScript(draw: Draw, depth = 1): Script {
  const length = 1 + Math.floor(draw() * 3);
  return {
    steps: Array.from({ length }, () => randomStep(draw, depth)),
    onError: pick(draw, ['throw', 'throw', 'return', 'fail'] as const),
    cleanUp: draw() < 0.35,
  };
}

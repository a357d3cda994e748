import type { SimProcess } from '../engine/scheduler.ts';
import type { Simulation } from '../simulation.ts';

/** Below three quarters of the lease, so that no such handler counts as one that blocked the event loop. */
const maxBurnMs = 200;

/** Uses the CPU in a handler before its first await. A few handlers block the event loop past their lease. */
export function burnCpu(
  simulation: Simulation,
  process: SimProcess,
  keys: readonly string[],
): void {
  const { world, weather, claims } = simulation;
  const { decisions } = world;
  if (!weather.burns) return;
  if (decisions.happens(`block:${process.name}`, 0.004)) {
    const ms = weather.activityLeaseMs + 20 + Math.floor(decisions.draw('block ms') * 300);
    world.note(`${process.name} blocks its event loop for ${ms} ms`);
    world.reached.add('fault block');
    // Of several runs in one batch, none is known to be at fault.
    const [key] = keys;
    if (key !== undefined && keys.length === 1) claims.blocks(process, key);
    process.burn(ms);
  } else if (decisions.happens(`burn:${process.name}`, 0.12)) {
    const ms = Math.floor(decisions.draw('burn ms') * maxBurnMs);
    world.note(`${process.name} computes for ${ms} ms`);
    world.reached.add('fault burn');
    process.burn(ms);
  }
}

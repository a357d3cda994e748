import type { Intact } from '../../conformance/broken/broken-provider.ts';
import type { Clock } from '../../../src/model/clock.ts';
import type { Provider } from '../../../src/providers/contract/provider.ts';
import type { Weather } from '../engine/weather.ts';

/** A guard of the engine that a test removes. The simulation must find that. */
export interface PlantedBug {
  /** The behaviour without the guard. */
  readonly fault: string;
  /** Replaces methods of the store. */
  readonly breakStore?: (intact: Intact) => Partial<Provider>;
  /** Replaces methods of classes of the engine. Returns a function that restores them. */
  readonly breakEngine?: () => () => void;
  /** Replaces the clock of each process. `wall` is the clock of its machine, which steps. */
  readonly breakClock?: (clock: Clock, wall: Clock) => Clock;
  /** Replaces the clock of the store's machine. */
  readonly breakStoreClock?: (clock: Clock) => Clock;
  /** The violation that it must cause. Default: any. */
  readonly finding?: RegExp;
  /** Conditions under which it shows. Without the bug, the seed that finds it must pass under the same conditions. */
  readonly weather?: Partial<Weather>;
}

import { brokenProviders } from '../../conformance/broken/all-broken-providers.ts';
import { removedGuards } from '../../model/helpers/removed-guards.ts';
import { conditions } from './conditions.ts';
import { engineBugs } from './engine-bugs.ts';
import { foundBugs } from './found-bugs.ts';
import { foundBy } from './found-by.ts';
import type { PlantedBug } from './planted-bug.ts';

/** All guards that can be removed: of the engine, and the broken variants of the store in other suites. */
export const allBugs: readonly PlantedBug[] = [
  ...engineBugs,
  ...foundBugs,
  ...[...removedGuards, ...brokenProviders].map(({ fault, override }): PlantedBug => ({
    fault,
    breakStore: override,
    ...(conditions[fault] && { weather: conditions[fault] }),
  })),
];

/** Bugs that the simulation must find, with the first seed that found each. */
export const plantedBugs: readonly { readonly bug: PlantedBug; readonly seed: number }[] =
  allBugs.flatMap((bug) => {
    const seed = foundBy[bug.fault];
    return seed === undefined ? [] : [{ bug, seed }];
  });

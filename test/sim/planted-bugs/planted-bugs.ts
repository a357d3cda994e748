import { brokenProviders } from '../../conformance/broken/all-broken-providers.ts';
import { removedGuards } from '../../model/helpers/removed-guards.ts';
import { engineBugs } from './engine-bugs.ts';
import { foundBy } from './found-by.ts';
import type { PlantedBug } from './planted-bug.ts';

/** Bugs that the simulation must find, with the first seed that found each. */
export const plantedBugs: readonly { readonly bug: PlantedBug; readonly seed: number }[] = [
  ...engineBugs,
  ...[...removedGuards, ...brokenProviders].map(({ fault, override }): PlantedBug => ({
    fault,
    breakStore: override,
  })),
].flatMap((bug) => {
  const seed = foundBy[bug.fault];
  return seed === undefined ? [] : [{ bug, seed }];
});

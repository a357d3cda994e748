import type { GoldenProgram } from './golden-program.ts';
import { activities } from './programs/activities.ts';
import { cancelling } from './programs/cancelling.ts';
import { joins } from './programs/joins.ts';
import { scopes } from './programs/scopes.ts';
import { waiting } from './programs/waiting.ts';

export const goldenPrograms: readonly GoldenProgram[] = [
  ...activities,
  ...cancelling,
  ...joins,
  ...scopes,
  ...waiting,
];

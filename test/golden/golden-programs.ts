import type { GoldenProgram } from './golden-program.ts';
import { activities } from './programs/activities.ts';
import { joins } from './programs/joins.ts';
import { waiting } from './programs/waiting.ts';

export const goldenPrograms: readonly GoldenProgram[] = [...activities, ...joins, ...waiting];

import type { z } from 'zod';

/** The JSON of the commands that create, run and check a project. */
export const startSchemas: Readonly<Record<string, z.ZodType>> = {};

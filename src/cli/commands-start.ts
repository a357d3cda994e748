import type { Command } from './command.ts';

/** The commands that create, run and check a project. */
export const startCommands: readonly Command[] = [];

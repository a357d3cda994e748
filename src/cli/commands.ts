import type { Command } from './command.ts';
import { keepCommands } from './commands-keep.ts';
import { limitCommands } from './commands-limits.ts';
import { lookCommands } from './commands-look.ts';
import { startCommands } from './commands-start.ts';
import { steerCommands } from './commands-steer.ts';
import { toolCommands } from './commands-tools.ts';

/** All commands. Help, completion, the reference and a test over all commands are made of this table. */
export const commands: readonly Command[] = [
  ...startCommands,
  ...lookCommands,
  ...steerCommands,
  ...keepCommands,
  ...limitCommands,
  ...toolCommands,
];

import { invalidOption } from '../option-fields.ts';

const maxPriority = 100;

/** Returns the priority if it is one (a whole number from 0 to 100, higher first), throws otherwise. */
export function checkPriority(priority: unknown): number {
  const number = priority as number;
  // Adding 0 turns -0 into 0.
  if (Number.isSafeInteger(number) && number >= 0 && number <= maxPriority) return number + 0;
  throw invalidOption(
    'priority',
    priority,
    `a whole number from 0 to ${maxPriority}, higher first`,
  );
}

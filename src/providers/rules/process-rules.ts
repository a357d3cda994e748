/** How long a registration lasts: one that is not renewed is of a process that no host can judge any more. */
export const registrationMs = 86_400_000;

export const strings = [];

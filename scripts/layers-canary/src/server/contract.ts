export type Contract = 'http';

import { request } from 'node:http';

export const connect = request;

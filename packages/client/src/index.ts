// The public surface of the client. It has no dependency at run time and runs in browsers and in Node; types come from the contract.
export { type CallOptions, type Client, type ClientOptions, type ClientResponse, createClient } from './client.ts'
export { ApiError, ConnectionError } from './errors.ts'
export type { PageOptions } from './pages.ts'
export type { Transport, TransportRequest, TransportResponse } from './transport.ts'
export type { WatchEvent, WatchOptions } from './watch.ts'

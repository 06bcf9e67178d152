// The client disconnected before the response: not an error of the broker, and no response is possible.
export class ClientGone extends Error {
  override readonly name = 'ClientGone'

  constructor(options?: { cause?: unknown }) {
    super('the client has gone', options)
  }
}

// The client closed its connection before it was answered: nothing went wrong on this side, and there is nobody to tell.
export class ClientGone extends Error {
  override readonly name = 'ClientGone'

  constructor(options?: { cause?: unknown }) {
    super('the client has gone', options)
  }
}

// A stream is the last answer of its connection, and it lasts for hours: Node's parser for further requests, 6.5 KiB of each idle stream,
// has nothing to do there any more. Node has no public word for letting it go but an upgrade, so this does what an upgrade does, and only
// where everything looks as it does in the Node we know; elsewhere the parser just stays (sole-answer.test.ts says which it is).
import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

interface Parser {
  close(): void
  remove(): void
  socket: unknown
  incoming: unknown
  outgoing: unknown
}

/** Before the head is written: it says that the connection ends with this answer. */
export function announceSole(response: ServerResponse): void {
  response.shouldKeepAlive = false
}

/** After the head was written. What the far end still sends is not read as a request; when it closes its side, the stream is over. */
export function letParserGo(response: ServerResponse): void {
  // Not from within the parser's own call.
  setImmediate(() => {
    const { socket } = response
    if (socket === null || socket.destroyed || !response.req.complete || response.writableEnded) return
    const parser = parserOf(socket)
    if (parser === null) return
    for (const event of ['data', 'end'] as const) for (const listener of httpListeners(socket, event)) socket.off(event, listener)
    // Node takes reading back from the parser when somebody listens to data.
    socket.on('data', () => undefined)
    socket.on('end', () => socket.destroy())
    Object.assign(parser, { socket: null, incoming: null, outgoing: null })
    Object.assign(socket, { parser: null })
    parser.remove()
    parser.close()
  })
}

function parserOf(socket: Socket): Parser | null {
  const parser = (socket as Socket & { parser?: Partial<Parser> | null }).parser ?? null
  const isKnown = typeof parser?.close === 'function' && typeof parser.remove === 'function' && parser.socket === socket
  const isListening = (['data', 'end'] as const).every((event) => httpListeners(socket, event).length === 1)
  return isKnown && isListening ? (parser as Parser) : null
}

type Listener = (...args: unknown[]) => void
const names: Readonly<Record<'data' | 'end', string>> = { data: 'bound socketOnData', end: 'bound socketOnEnd' }

const httpListeners = (socket: Socket, event: 'data' | 'end'): Listener[] =>
  (socket.listeners(event) as Listener[]).filter((listener) => listener.name === names[event])

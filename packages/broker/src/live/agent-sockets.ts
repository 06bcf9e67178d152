// Sockets of agents in this process. One per agent: a newer one evicts the older, also that of another process.
import type { WebSocket } from 'ws'
import type { Actor } from '../audit/rules.ts'
import type { Bus } from './bus.ts'
import { type ReceiveDeps, receiveFrames } from './receive-frames.ts'
import { toPollFrame } from './rules.ts'
import { type ConnectionLimits, SocketConnection } from './socket-connection.ts'
import * as liveStore from './store.ts'

export interface AgentSocketsDeps extends Omit<ReceiveDeps, 'signal' | 'controlFramesMax'> {
  readonly bus: Pick<Bus, 'publish'>
  readonly limits: ConnectionLimits
  readonly processId: string
  /** An agent connected or disconnected. */
  readonly onConnectionChange: (agentId: string) => void
}
export interface AgentSocket {
  readonly agentId: string
  readonly session: number
  readonly connectedSince: string
  readonly connection: SocketConnection
}
export interface AgentSockets {
  readonly count: number
  list(): AgentSocket[]
  accept(ws: WebSocket, agent: { readonly actor: Actor; readonly session: number; readonly connectedSince: string }): SocketConnection
  push(agentId: string, type: string, text: string): void
  /** The agent opened a newer socket elsewhere. */
  evict(agentId: string, session: number): void
  /** Writes counts for other processes and evicts sockets that were replaced while messages were lost. */
  refresh(): Promise<void>
  /** Resolves once the control frames that arrived are stored; those left after `limitMs` are dropped and counted. */
  settle(limitMs: number): Promise<void>
}

export function createAgentSockets(deps: AgentSocketsDeps): AgentSockets {
  const sockets = new Map<string, AgentSocket>()
  const handling = new Set<Promise<void>>()
  const stopping = new AbortController()
  const receiveDeps: ReceiveDeps = { ...deps, signal: stopping.signal, controlFramesMax: deps.limits.laneFrames.control }
  const track = (work: Promise<void>) => {
    handling.add(work)
    void work.finally(() => handling.delete(work))
  }
  const removeRow = ({ agentId, session }: AgentSocket): Promise<unknown> =>
    liveStore
      .closeSocket(deps.sql, { agent_id: agentId, process: deps.processId, session })
      .catch((error: unknown) => deps.log.debug('agent session not removed', { error: error as Error }))
  const forget = (socket: AgentSocket) => {
    if (sockets.get(socket.agentId) === socket) sockets.delete(socket.agentId)
    void removeRow(socket).finally(() => {
      deps.bus.publish({ is: 'closed', agentId: socket.agentId })
      deps.onConnectionChange(socket.agentId)
    })
  }
  const evict = (agentId: string, session: number) => {
    const socket = sockets.get(agentId)
    if (socket === undefined || socket.session >= session) return
    sockets.delete(agentId)
    socket.connection.close()
  }
  return {
    get count() {
      return sockets.size
    },
    list: () => [...sockets.values()],
    accept: (ws, { actor, session, connectedSince }) => {
      const agentId = actor.id ?? ''
      const connection = new SocketConnection(ws, {
        clock: deps.clock,
        limits: deps.limits,
        // An agent that reads again after pushes were dropped polls once.
        buildGap: () => toPollFrame(agentId),
        onSent: (type) => deps.metrics.recordMessage('out', type),
        onDropped: (lane) => deps.metrics.recordDrop(`${lane}_full`),
        onClosed: () => forget(socket),
      })
      const socket: AgentSocket = { agentId, session, connectedSince, connection }
      // Handshakes of an agent may end in another order than they began.
      if ((sockets.get(agentId)?.session ?? 0) > session) {
        connection.close()
        return connection
      }
      evict(agentId, session)
      sockets.set(agentId, socket)
      receiveFrames(receiveDeps, ws, { actor, connection, track })
      deps.bus.publish({ is: 'socket', agentId, session })
      deps.onConnectionChange(agentId)
      return connection
    },
    push: (agentId, type, text) => sockets.get(agentId)?.connection.send('control', type, text),
    evict,
    refresh: async () => {
      const open = [...sockets.values()]
      if (open.length === 0) return
      const replaced = await liveStore.refreshSockets(deps.sql, {
        process: deps.processId,
        agent_ids: open.map(({ agentId }) => agentId),
        sessions: open.map(({ session }) => session),
        since: open.map(({ connectedSince }) => connectedSince),
        messages_in: open.map(({ connection }) => connection.messagesIn),
        messages_out: open.map(({ connection }) => connection.messagesOut),
      })
      // Sockets that closed meanwhile may have been written again.
      for (const socket of open) if (socket.connection.isClosed) await removeRow(socket)
      for (const { agent_id } of replaced) evict(agent_id, Number.MAX_SAFE_INTEGER)
    },
    settle: async (limitMs) => {
      const limit = Promise.withResolvers<void>()
      const timer = deps.clock.setTimer(limitMs, () => {
        stopping.abort(new Error('the broker stops'))
        limit.resolve()
      })
      while (handling.size > 0 && !stopping.signal.aborted) await Promise.race([Promise.all(handling), limit.promise])
      timer.cancel()
    },
  }
}

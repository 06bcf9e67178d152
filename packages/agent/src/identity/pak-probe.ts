// Checks and rotates given PAKs at the broker, independent of the PAK of other requests.
import type { Client } from '@brokkr/contract/client.ts'
import { ApiError } from '@brokkr/contract/errors.ts'
import type { AgentId } from '@brokkr/contract/wire.ts'
import type { PakProbe } from './own-pak.ts'

export function createPakProbe(client: Client, agentId: () => AgentId, signal: AbortSignal): PakProbe {
  const as = (pak: string) => ({ headers: { authorization: `Bearer ${pak}` }, signal })
  return {
    isValid: (pak) => unlessRefused(() => client.verifyPak({}, as(pak))),
    rotate: (old, { short, hash }) =>
      unlessRefused(() => client.rotateAgentPak({ params: { id: agentId() }, body: { short_token: short, pak_hash: hash } }, as(old))),
  }
}

async function unlessRefused(call: () => Promise<unknown>): Promise<boolean> {
  try {
    await call()
    return true
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) return false
    throw error
  }
}

// Who is signed in. The cookie is HttpOnly, so the console asks the broker. A session that ends keeps the page and its drafts; a dialog over
// the page asks to sign in again.
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { createContext, type ReactNode, useContext, useEffect, useMemo, useRef, useState, useSyncExternalStore } from 'react'
import { CallError, call } from './call.ts'
import { watchedKinds } from './invalidate.ts'
import { createLiveFeed, type Feed, type LiveFeed } from './live.ts'

export interface Session {
  readonly isAdmin: boolean
  readonly isReadonly: boolean
  readonly generatorId: string | null
}
export type SignedIn = Session | 'unknown' | 'signed-out'

interface SessionContext {
  readonly session: SignedIn
  /** True if a session existed in this page and ended. */
  readonly hasEnded: boolean
  readonly feed: LiveFeed
  readonly refresh: () => Promise<void>
  readonly signOut: () => Promise<void>
}
const Context = createContext<SessionContext | null>(null)

const sessionKey = ['session']

export function SessionProvider({ children }: { children: ReactNode }) {
  const queries = useQueryClient()
  const [wasSignedIn, setWasSignedIn] = useState(false)
  const query = useQuery({
    queryKey: sessionKey,
    queryFn: ({ signal }) => readSession(signal),
    staleTime: 60_000,
    // While nobody is signed in, asking again would only count as another failed attempt.
    refetchInterval: ({ state }) => (state.data === null ? false : 60_000),
  })
  const session: SignedIn = query.data === undefined ? 'unknown' : (query.data ?? 'signed-out')
  const scopes = useRef<readonly string[]>([])
  scopes.current = toScopes(session)
  const feed = useMemo(
    () =>
      createLiveFeed(queries, {
        scopes: () => scopes.current,
        onClosed: () => void queries.invalidateQueries({ queryKey: sessionKey }),
      }),
    [queries],
  )
  const isSignedIn = typeof session === 'object'
  useEffect(() => {
    if (!isSignedIn) return undefined
    setWasSignedIn(true)
    feed.start()
    return () => feed.stop()
  }, [feed, isSignedIn])
  const value = useMemo<SessionContext>(
    () => ({
      session,
      hasEnded: wasSignedIn && session === 'signed-out',
      feed,
      refresh: async () => {
        await queries.invalidateQueries()
      },
      signOut: async () => {
        await call('deleteSession', {})
        localStorage.removeItem(signedInKey)
        // A new document, so that nothing of the session stays in memory.
        location.assign('/')
      },
    }),
    [session, wasSignedIn, feed, queries],
  )
  return <Context value={value}>{children}</Context>
}

/** Admins watch kinds; a generator watches its own stacks. */
const toScopes = (session: SignedIn): string[] =>
  typeof session === 'object' && session.generatorId !== null
    ? [`generator:${session.generatorId}`]
    : watchedKinds.map((kind) => `kind:${kind}`)

/** Whether this browser signed in before; it holds no credential. Without it the broker is not asked, because a page without a session
 *  would count as a failed attempt to sign in. */
const signedInKey = 'brokkr-signed-in'
export const rememberSignIn = (): void => localStorage.setItem(signedInKey, 'yes')

async function readSession(signal: AbortSignal): Promise<Session | null> {
  if (localStorage.getItem(signedInKey) === null) return null
  try {
    const { admin, readonly, generator } = await call('verifyPak', {}, { signal })
    return { isAdmin: admin, isReadonly: readonly, generatorId: generator }
  } catch (error) {
    if (error instanceof CallError && error.status === 401) {
      localStorage.removeItem(signedInKey)
      return null
    }
    throw error
  }
}

export function useSession(): SessionContext {
  const value = useContext(Context)
  if (value === null) throw new Error('useSession is called outside of SessionProvider')
  return value
}

export function useFeed(): Feed {
  const { feed } = useSession()
  return useSyncExternalStore(feed.subscribe, feed.read)
}

/** Why the signed-in caller may not change things; null if it may. */
export function useReadonlyReason(): string | null {
  const { session } = useSession()
  return typeof session === 'object' && session.isReadonly ? 'this session is read-only; sign in with another key' : null
}

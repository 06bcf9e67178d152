// Reads the next page when its button comes into view, or by the button itself.
import { useEffect, useRef } from 'react'

export function More({ hasMore, isLoading, load }: { hasMore: boolean; isLoading: boolean; load: () => void }) {
  const ref = useRef<HTMLButtonElement>(null)
  useEffect(() => {
    const button = ref.current
    if (button === null || !hasMore) return undefined
    const observer = new IntersectionObserver((entries) => {
      if (entries.some((entry) => entry.isIntersecting)) load()
    })
    observer.observe(button)
    return () => observer.disconnect()
  }, [hasMore, load])
  if (!hasMore) return null
  return (
    <button ref={ref} type="button" className="btn bare sm more" disabled={isLoading} onClick={load}>
      {isLoading ? 'Reading…' : 'More'}
    </button>
  )
}
